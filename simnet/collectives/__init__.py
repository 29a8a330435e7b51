"""Collective operations as fluid tasks on a fabric, and their closed forms."""

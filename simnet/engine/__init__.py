"""The fluid discrete-event engine: fair sharing, behaviour classes, traces."""

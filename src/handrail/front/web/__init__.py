"""REST, the web console and live events over one service: translate in, call, translate out."""

"""Front ends: translate in, call, translate out. Nothing is decided here."""

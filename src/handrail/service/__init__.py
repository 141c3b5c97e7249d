"""The service's own parts: identities, the index of runs, parked calls, notifications, metrics. No HTTP here."""

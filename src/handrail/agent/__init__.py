"""The agent: model providers, the loop between model and kernel, the inbox of tasks, workers."""

"""What a person changes of a run: numbered edits at work, drafts of configurations, going back, forks."""

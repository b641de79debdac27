"""What the views show, as values: pure functions over the model, without Qt."""

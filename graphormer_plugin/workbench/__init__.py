"""What a chemist asks of a table: fits, predictions, reports and explanations."""

"""The distance of two samples of rows: maximum mean discrepancy, attributed to columns exactly."""

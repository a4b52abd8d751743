"""How far two samples of rows lie apart: maximum mean discrepancy, attributed to columns exactly."""

"""What watches a broker from outside: dashboards and alert rules over the registry of metrics.

expressions.py   the names that an expression of Prometheus uses
alerts.py        the rules, each with what to do
dashboards.py    the dashboards of Grafana
"""

{# A row with the status ok has a prediction and a base value. #}
{% test numbers_where_ok(model) %}
select *
from {{ model }}
where status = 'ok' and (prediction is null or base_value is null)
{% endtest %}

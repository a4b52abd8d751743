{# Each key has one line for each of its features, ranks or outputs: the columns of `within`. #}
{% test no_line_twice(model, key, within) %}
{% set columns = (key + within) | join(", ") %}
select {{ columns }}, count(*) as n_lines
from {{ model }}
group by {{ columns }}
having count(*) > 1
{% endtest %}

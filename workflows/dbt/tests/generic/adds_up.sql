{# Base value and attributions of a row add up to its prediction (shape = "wide"). #}
{% test adds_up(model, features, tolerance=1e-6) %}
{% set quoted = [] %}
{% for name in features %}{% do quoted.append(adapter.quote("phi_" ~ name)) %}{% endfor %}
select *
from {{ model }}
where status = 'ok'
    and abs(base_value + {{ quoted | join(" + ") }} - prediction) > {{ tolerance }}
{% endtest %}

{# A feature of a lower rank has no smaller |attribution| than the next one (shape = "top_k"). #}
{% test strongest_first(model, key) %}
select *
from (
    select
        {{ key | join(", ") }},
        rank,
        abs(attribution) as magnitude,
        lag(abs(attribution)) over (partition by {{ key | join(", ") }} order by rank) as before
    from {{ model }}
    where feature is not null
) as ranked
where magnitude > before
{% endtest %}

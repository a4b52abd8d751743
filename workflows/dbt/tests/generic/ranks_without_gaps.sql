{# The ranks of a key are 1, 2, … without a gap (shape = "top_k"). #}
{% test ranks_without_gaps(model, key) %}
select {{ key | join(", ") }}, count(*) as n_lines, max(rank) as last_rank
from {{ model }}
where feature is not null
group by {{ key | join(", ") }}
having max(rank) <> count(*) or min(rank) <> 1
{% endtest %}

{# The table has as many lines as dshap counted after its last load: nobody else has changed it. #}
{% test lines_as_recorded(model, table_name) %}
with loads as (
    select n_table_lines, row_number() over (order by loaded_at desc, run_id desc) as place
    from {{ source('dshap', 'loads') }}
    where table_name = '{{ table_name }}' and n_table_lines is not null
)
select loads.n_table_lines, counted.n_lines
from loads
cross join (select count(*) as n_lines from {{ model }}) as counted
where loads.place = 1 and loads.n_table_lines <> counted.n_lines
{% endtest %}

{# Every row of the explained table has a line: `of` is that table, such as ref('customers'). #}
{% test every_row_explained(model, key, of) %}
select {% for name in key %}explained.{{ name }}{{ ", " if not loop.last }}{% endfor %}
from {{ of }} as explained
left join (select distinct {{ key | join(", ") }} from {{ model }}) as reasons
    on {% for name in key %}explained.{{ name }} = reasons.{{ name }}{{ " and " if not loop.last }}{% endfor %}

where reasons.{{ key[0] }} is null
{% endtest %}

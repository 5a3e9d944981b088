-- The version of the schema, if there is one.
select max(version) from {schema}.weft_schema

-- Three relations that need each other, in one table: kind is f (value flow), m (memory alias) or v (value alias). `found` is what
-- the last step has found, `recurring.found` all there is; value_alias(x, y) by memory_alias has any of three from the last step.
WITH RECURSIVE found(kind, x, y) USING KEY (kind, x, y) AS (
    SELECT DISTINCT kind, x, y FROM (
        SELECT 'f' AS kind, x, y FROM assign
        UNION ALL SELECT kind, x, x FROM assign, (VALUES ('f'), ('m')) kinds(kind)
        UNION ALL SELECT kind, y, y FROM assign, (VALUES ('f'), ('m')) kinds(kind)
    )
    UNION
    (
        SELECT step.kind, step.x, step.y FROM (
            SELECT 'f', a.x, b.y FROM found a JOIN recurring.found b ON a.y = b.x WHERE a.kind = 'f' AND b.kind = 'f'
            UNION SELECT 'f', a.x, b.y FROM recurring.found a JOIN found b ON a.y = b.x WHERE a.kind = 'f' AND b.kind = 'f'
            UNION SELECT 'f', assign.x, m.y FROM assign JOIN found m ON m.x = assign.y WHERE m.kind = 'm'
            UNION SELECT 'm', a.y, b.y FROM dereference a JOIN found v ON v.x = a.x JOIN dereference b ON b.x = v.y
                WHERE v.kind = 'v'
            UNION SELECT 'v', a.y, b.y FROM found a JOIN recurring.found b ON a.x = b.x WHERE a.kind = 'f' AND b.kind = 'f'
            UNION SELECT 'v', a.y, b.y FROM recurring.found a JOIN found b ON a.x = b.x WHERE a.kind = 'f' AND b.kind = 'f'
            UNION SELECT 'v', a.y, b.y FROM found a JOIN recurring.found m ON m.x = a.x JOIN recurring.found b ON b.x = m.y
                WHERE a.kind = 'f' AND m.kind = 'm' AND b.kind = 'f'
            UNION SELECT 'v', a.y, b.y FROM recurring.found a JOIN found m ON m.x = a.x JOIN recurring.found b ON b.x = m.y
                WHERE a.kind = 'f' AND m.kind = 'm' AND b.kind = 'f'
            UNION SELECT 'v', a.y, b.y FROM recurring.found a JOIN recurring.found m ON m.x = a.x JOIN found b ON b.x = m.y
                WHERE a.kind = 'f' AND m.kind = 'm' AND b.kind = 'f'
        ) step(kind, x, y)
        ANTI JOIN recurring.found old ON old.kind = step.kind AND old.x = step.x AND old.y = step.y
    )
)
SELECT count(*) FROM found

WITH RECURSIVE
    pair(x, y) AS MATERIALIZED (SELECT x, y FROM edge UNION SELECT y, x FROM edge),
    label(x, least) USING KEY (x) AS (
        SELECT DISTINCT x, x FROM pair
        UNION
        (
            SELECT pair.y, min(label.least) FROM label JOIN pair ON pair.x = label.x JOIN recurring.label old ON old.x = pair.y
            WHERE label.least < old.least GROUP BY pair.y
        )
    )
SELECT count(DISTINCT least) FROM label

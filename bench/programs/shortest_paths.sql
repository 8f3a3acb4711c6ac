WITH RECURSIVE distance(x, far) USING KEY (x) AS (
    SELECT x, 0::BIGINT FROM start
    UNION
    (
        SELECT edge.y, min(distance.far + edge.z) AS far
        FROM distance JOIN edge ON edge.x = distance.x LEFT JOIN recurring.distance old ON old.x = edge.y
        WHERE old.far IS NULL OR distance.far + edge.z < old.far GROUP BY edge.y
    )
)
SELECT sum(far) FROM distance

WITH RECURSIVE same(x, y) AS (
    SELECT a.y, b.y FROM edge a JOIN edge b ON a.x = b.x WHERE a.y <> b.y
    UNION
    SELECT a.y, b.y FROM same JOIN edge a ON a.x = same.x JOIN edge b ON b.x = same.y
)
SELECT count(*) FROM same

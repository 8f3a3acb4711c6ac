-- `points_to` is what the last step has found, `recurring.points_to` all there is: the rules with two, from either side.
WITH RECURSIVE points_to(x, o) USING KEY (x, o) AS (
    SELECT DISTINCT x, y FROM address_of
    UNION
    (
        SELECT found.x, found.o FROM (
            SELECT copy.x, p.o FROM copy JOIN points_to p ON p.x = copy.y
            UNION
            SELECT load.x, q.o FROM load JOIN points_to p ON p.x = load.y JOIN recurring.points_to q ON q.x = p.o
            UNION
            SELECT load.x, q.o FROM load JOIN recurring.points_to p ON p.x = load.y JOIN points_to q ON q.x = p.o
            UNION
            SELECT p.o, q.o FROM store JOIN points_to p ON p.x = store.x JOIN recurring.points_to q ON q.x = store.y
            UNION
            SELECT p.o, q.o FROM store JOIN recurring.points_to p ON p.x = store.x JOIN points_to q ON q.x = store.y
        ) found(x, o) ANTI JOIN recurring.points_to old ON old.x = found.x AND old.o = found.o
    )
)
SELECT count(*) FROM points_to

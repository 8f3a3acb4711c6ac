SELECT a.category, b.category, count(*) FROM bought s JOIN bought t USING (customer) JOIN product a ON s.product = a.product
JOIN product b ON t.product = b.product GROUP BY a.category, b.category

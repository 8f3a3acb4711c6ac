SELECT category, year, sum(amount), count(amount) FROM sale JOIN product USING (product) JOIN calendar USING (day)
WHERE amount >= 100 GROUP BY category, year

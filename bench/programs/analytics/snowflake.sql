SELECT country, department, sum(amount) FROM sale JOIN customer ON customer = name JOIN city USING (city)
JOIN product USING (product) JOIN category USING (category) GROUP BY country, department

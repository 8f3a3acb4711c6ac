SELECT segment, sum(amount) FROM sale JOIN customer ON customer = name GROUP BY segment

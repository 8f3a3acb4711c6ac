SELECT DISTINCT customer FROM sale WHERE day >= 3600 AND amount > 900

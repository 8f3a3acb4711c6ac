"""Rules in steps: XY-stratified components (Zaniolo, Arni, Ong 1993)."""

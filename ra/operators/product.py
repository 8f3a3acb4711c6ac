"""The product: every tuple of one relation with every tuple of another."""

from semi_naive.ra.evaluation import Plan, ready
from semi_naive.ra.operators.join import joined
from semi_naive.ra.view import View


class Product(Plan):
    """product(left, right) :- left(left), right(right). The smaller side is sent to all partitions."""

    fuses = True

    def __init__(self, left, right):
        self.inputs = (left, right)

    def title(self) -> str:
        return "product"

    def forecast(self) -> str:
        return "1 job; the smaller side goes to all partitions, the larger stays"

    def evaluate(self, relation, key, view):
        sides = [(reading.stored.any_index(), reading.view) for reading in ready(self.inputs, None)]
        view = View.whole(sum(side.arity for side in self.inputs)).then(view)
        return joined(relation.layout, sides, ((), ()), view, key, everywhere=True)

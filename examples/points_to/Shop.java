// The program that the facts are about. Every local variable is written Method.name in the facts, every object by its line.
class Shop {
    static void main() {
        Cart cart = new Cart();              // 4
        Item book = new Item();              // 5
        Item lamp = new Item();              // 6
        cart.put(book);                      // 7
        Payment cash = new Cash();           // 8
        Payment card = new Card();           // 9
        Till till = new Till();              // 10
        till.method = cash;                  // 11
        till.backup = card;                  // 12
        Receipt paper = till.close(cart);    // 13
        Receipt later = paper; Item sold = later.item; // 14
    }
}
class Cart {
    Item first;
    void put(Item item) { this.first = item; }           // 19
    Item take() { Item taken = this.first; return taken; } // 20
}
class Till {
    Payment method, backup;
    Receipt close(Cart basket) {
        Payment by = this.method;            // 25
        Item item = basket.take();           // 26
        Receipt made = by.pay(item);         // 27
        return made;
    }
    void audit(Cart basket) {                // never called
        Payment other = this.backup;         // 31
        Item seen = basket.take();           // 32
        Receipt made = other.pay(seen);      // 33
    }
}
interface Payment { Receipt pay(Item item); }
class Cash implements Payment {
    public Receipt pay(Item item) {
        Receipt r = new Receipt();           // 39
        r.item = item;                       // 40
        return r;
    }
}
class Card implements Payment {
    public Receipt pay(Item item) {
        Receipt r = new Receipt();           // 46
        r.item = item;                       // 47
        return r;
    }
}
class Cheque extends Card { }                // never made

"""Cities that the trip planner knows: weather, prices and sights. Replace it by your own service."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sight:
    """Sight, with its ticket's price and its place on the map: 0, 0 is the top left corner, and 1, 1 the bottom right one."""

    name: str
    eur: int
    x: float
    y: float
    see: str


@dataclass(frozen=True)
class City:
    """City with figures by month, and prices in EUR: of a room for a night, and of a person's food and transport for a day."""

    name: str
    highs: tuple[int, ...]
    rainy_days: tuple[int, ...]
    room: int
    food: int
    transport: int
    water: tuple[tuple[float, float], ...]
    """Line of the river or the shore on the map."""
    sights: tuple[Sight, ...]


CITIES = {
    "lisbon": City(
        "Lisbon",
        (15, 16, 19, 20, 23, 26, 28, 29, 27, 23, 18, 15),
        (11, 10, 8, 9, 7, 3, 1, 1, 4, 9, 11, 12),
        120,
        38,
        7,
        ((-0.1, 0.98), (0.25, 0.9), (0.5, 0.92), (0.75, 0.82), (1.1, 0.6)),
        (
            Sight("Museu do Azulejo", 10, 0.92, 0.24, "five centuries of tiles"),
            Sight("Castelo de São Jorge", 15, 0.66, 0.22, "walls, peacocks, the best view"),
            Sight("Alfama", 0, 0.74, 0.48, "lanes and fado below the castle"),
            Sight("Praça do Comércio", 0, 0.54, 0.6, "arcades at the river"),
            Sight("LX Factory", 0, 0.3, 0.66, "bookshop, bars and street art"),
            Sight("Jerónimos Monastery", 12, 0.1, 0.5, "stone carved like lace"),
        ),
    ),
    "copenhagen": City(
        "Copenhagen",
        (3, 3, 6, 11, 16, 19, 22, 22, 18, 12, 7, 4),
        (17, 13, 14, 11, 11, 12, 14, 14, 15, 16, 16, 17),
        170,
        62,
        11,
        ((0.62, -0.1), (0.66, 0.3), (0.6, 0.55), (0.7, 0.8), (0.64, 1.1)),
        (
            Sight("Nyhavn", 0, 0.55, 0.4, "coloured houses at the old harbour"),
            Sight("Rosenborg Castle", 19, 0.42, 0.3, "crown jewels in a king's garden"),
            Sight("Torvehallerne", 0, 0.3, 0.36, "market halls for lunch"),
            Sight("Christiania", 0, 0.82, 0.58, "self-built houses on the ramparts"),
            Sight("Tivoli Gardens", 23, 0.3, 0.66, "rides and lanterns since 1843"),
            Sight("Superkilen", 0, 0.1, 0.16, "a park with things of sixty nations"),
        ),
    ),
    "kyoto": City(
        "Kyoto",
        (9, 10, 14, 20, 25, 28, 32, 34, 29, 23, 17, 12),
        (10, 10, 12, 11, 11, 13, 13, 9, 12, 9, 8, 9),
        140,
        42,
        8,
        ((0.5, -0.1), (0.56, 0.25), (0.62, 0.5), (0.55, 0.75), (0.45, 1.1)),
        (
            Sight("Fushimi Inari", 0, 0.72, 0.88, "ten thousand red gates"),
            Sight("Kiyomizu-dera", 3, 0.84, 0.6, "a wooden stage above the trees"),
            Sight("Gion", 0, 0.72, 0.48, "tea houses and lanterns"),
            Sight("Nishiki Market", 0, 0.5, 0.5, "pickles, knives and skewers"),
            Sight("Nijō Castle", 8, 0.34, 0.44, "floors that sing like birds"),
            Sight("Kinkaku-ji", 4, 0.16, 0.18, "the golden pavilion"),
        ),
    ),
    "marrakesh": City(
        "Marrakesh",
        (18, 20, 23, 25, 29, 33, 37, 37, 32, 28, 23, 19),
        (6, 6, 6, 6, 3, 1, 1, 1, 3, 5, 6, 6),
        85,
        24,
        4,
        ((-0.1, 0.14), (0.25, 0.2), (0.5, 0.12), (0.8, 0.2), (1.1, 0.1)),
        (
            Sight("Jemaa el-Fnaa", 0, 0.5, 0.55, "stories, drums and orange juice"),
            Sight("Ben Youssef Madrasa", 5, 0.62, 0.36, "cedar and stucco around a pool"),
            Sight("Souks", 0, 0.52, 0.42, "dyers, lamps and leather"),
            Sight("Bahia Palace", 7, 0.64, 0.72, "painted ceilings, quiet courtyards"),
            Sight("Saadian Tombs", 7, 0.46, 0.8, "marble that was walled up for centuries"),
            Sight("Jardin Majorelle", 16, 0.28, 0.34, "cacti and a very blue house"),
        ),
    ),
}

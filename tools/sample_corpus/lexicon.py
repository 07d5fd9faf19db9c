"""The names and the grammar from which `generate` writes the sample corpus.

A template is a string of words. `{slot}` stands for a name or for another rule, and
`[type words ]` marks the words between the brackets as an entity:

    [organization the Bank of {country} ]

All persons, companies and titles are invented; places are real.
"""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    """Return the items of a comma-separated list."""
    return tuple(" ".join(item.split()) for item in text.split(","))


# Names. A name in `AMBIGUOUS` is in every part of the corpus; the others are divided among the parts, so that
# dev and test have names that do not occur in train.

AMBIGUOUS = frozenset(
    _words("""
    Jordan, Paris, Victoria, Florence, Ford, May, Austin, Mercury, Chelsea, Lincoln, Orange, Apple,
    Madison, March, April, June, August, Will, Georgia, Sydney, Washington, Hamilton, Kent, Chester,
    Carlisle, Lancaster, Dallas, Virginia, Phoenix, Jaguar, Amazon, Reading, Nice, Cork, Split,
    Mark, Hope, Rose, Bath, Page, Saturn, Sofia
    """)
)

NAMES: dict[str, tuple[str, ...]] = {
    "woman": _words("""
        Paris, Victoria, Florence, May, Chelsea, Madison, Georgia, Sydney, June, April, Virginia,
        Grace, Hope, Rose, Ada, Ingrid, Noor, Clara, Yuki, Marta, Leila, Sofia, Hanna, Beatrice,
        Olga, Amina, Freya, Lucia, Petra, Wanda, Esther, Nadia, Maeve, Carmen, Elif, Thandi, Irene,
        Astrid, Zofia, Camille, Dora, Mei, Renata, Sigrid, Louisa, Farah, Helena, Judith, Anneke,
        Priya, Rosalind, Tamar, Bronwyn, Celeste, Edith, Greta, Imani, Katya, Lorna, Mirela, Odile,
        Pilar, Ruth, Selma, Tessa, Ulla, Vera, Winifred, Yasmin, Zelda, Agnes, Bettina, Dalia,
        Eleni, Flora
        """),
    "man": _words("""
        Jordan, Austin, Will, Chester, Dallas, Mark, August, Bill, Frank, Leo, Anton, Kofi, Bruno,
        Emil, Hassan, Jonas, Marek, Niels, Oscar, Pavel, Rafael, Stefan, Tomas, Viktor, Walter,
        Yusuf, Arne, Basil, Cyril, Dmitri, Edgar, Felix, Gustav, Henrik, Ivan, Julius, Karim, Lars,
        Matteo, Nikhil, Otto, Piotr, Rolf, Samir, Tariq, Ulrich, Vikram, Wim, Zoltan, Amos, Bertil,
        Conrad, Diego, Eamon, Finn, Gareth, Hugo, Ismail, Jasper, Kenji, Lionel, Milan, Nestor,
        Osman, Percy, Quentin, Ravi, Sven, Theo, Umberto, Vasil, Wendell
        """),
    "surname": _words("""
        Ford, Lincoln, March, Washington, Hamilton, Kent, Carlisle, Lancaster, Madison, Bush, Wood,
        Page, Marsh, Brandt, Okafor, Lindqvist, Moreau, Tanaka, Varga, Petrov, Delgado, Ashworth,
        Kowalski, Haddad, Ferrari, Nyberg, Osei, Quinn, Rasmussen, Sokolov, Thorne, Ueda, Vermeer,
        Whitlock, Yilmaz, Zeman, Abbott, Bellamy, Castellan, Dunmore, Eriksen, Fairbank, Galloway,
        Holloway, Ibarra, Jansen, Keller, Lomax, Mbeki, Novak, Oduya, Pemberton, Quist, Radley,
        Sandoval, Tremblay, Underwood, Vasquez, Winslow, Yardley, Zimmer, Almeida, Birchwood,
        Corrigan, Drummond, Ekberg, Fontaine, Grimshaw, Hartmann, Ivanova, Jarvela, Kimura, Larkin,
        Mendoza, Nakamura, Orlov, Pelletier, Renshaw, Sutherland, Talbot, Ulrik, Vance, Wexler,
        Yeoman, Zapata, Achterberg, Blackwell, Crowther, Devlin, Engstrom, Farrow, Gruber, Hollis,
        Isaksen, Jovanovic, Kapoor, Leclerc, Macallan, Norwood, Olander, Prescott, Rowntree,
        Stavrou, Tolland, Vogel, Wetherby, Ximenez, Ziegler, Aldridge, Bjornstad, Calloway, Dorsey,
        Elmore, Fitzroy, Greaves
        """),
    "town": _words("""
        Paris, Victoria, Florence, Austin, Lincoln, Orange, Madison, Sydney, Hamilton, Chester,
        Carlisle, Lancaster, Dallas, Phoenix, Reading, Nice, Cork, Split, Bath, Chelsea, Lisbon,
        Ghent, Oslo, Toronto, Kyoto, Krakow, Porto, Bergen, Tallinn, Riga, Vilnius, Helsinki,
        Aarhus, Malmo, Leipzig, Bremen, Munich, Vienna, Graz, Zurich, Basel, Lyon, Lille, Nantes,
        Bordeaux, Madrid, Seville, Valencia, Bilbao, Turin, Naples, Genoa, Bologna, Zagreb,
        Belgrade, Sofia, Varna, Bucharest, Budapest, Prague, Brno, Bratislava, Warsaw, Gdansk, Kyiv,
        Odesa, Istanbul, Ankara, Izmir, Cairo, Tunis, Rabat, Accra, Lagos, Nairobi, Kampala, Durban,
        Mumbai, Pune, Chennai, Dhaka, Hanoi, Manila, Jakarta, Osaka, Sapporo, Busan, Seoul, Perth,
        Melbourne, Auckland, Wellington, Vancouver, Montreal, Halifax, Boston, Chicago, Denver,
        Seattle, Portland, Lima, Quito, Bogota, Santiago, Montevideo, Havana, Dublin, Galway,
        Belfast, Glasgow, Dundee, Leeds, York, Norwich, Exeter, Cardiff, Antwerp, Bruges, Utrecht,
        Leiden, Rotterdam
        """),
    "country": _words("""
        Jordan, Georgia, Norway, Portugal, Canada, Japan, Poland, Estonia, Latvia, Finland, Denmark,
        Sweden, Germany, Austria, Switzerland, France, Spain, Italy, Croatia, Serbia, Bulgaria,
        Romania, Hungary, Slovakia, Ukraine, Turkey, Egypt, Tunisia, Morocco, Ghana, Nigeria, Kenya,
        Uganda, India, Bangladesh, Vietnam, Indonesia, Australia, Peru, Ecuador, Colombia, Chile,
        Uruguay, Cuba, Ireland, Scotland, Belgium, Iceland, Greece, Brazil
        """),
    "region": _words("""
        Victoria, Washington, Virginia, Georgia, Kent, Cork, Texas, Bavaria, Tuscany, Provence,
        Brittany, Andalusia, Bohemia, Silesia, Saxony, Lapland, Jutland, Flanders, Galicia,
        Calabria, Ontario, Quebec, Oregon, Ohio, Nebraska, Anatolia, Kerala, Bengal, Hokkaido,
        Tasmania, Ulster, Cornwall, Suffolk, Moravia, Tyrol, Alsace
        """),
    "river": _words("""
        Jordan, Amazon, Orange, Danube, Rhine, Elbe, Oder, Vistula, Loire, Rhone, Tagus, Douro,
        Ebro, Tiber, Volga, Don, Nile, Niger, Congo, Zambezi, Ganges, Mekong, Severn, Trent, Tweed,
        Shannon, Hudson, Yukon, Murray
        """),
    "lake": _words("""
        Victoria, Geneva, Constance, Como, Garda, Ladoga, Tana, Malawi, Superior, Huron, Erie,
        Michigan, Titicaca, Balaton, Baikal, Windermere
        """),
    "company": _words("""
        Ford, Orange, Apple, Mercury, Jaguar, Amazon, Phoenix, Saturn, Vantor, Orbis, Halden,
        Quillon, Brightwell, Zentrix, Norvik, Calyx, Lumora, Tessaro, Kestrin, Amberline, Polarwind,
        Farrowgate, Osterglas, Nordvang, Blue Kite, Marlin Air, Redfern, Silverbrook, Altivera,
        Corvane, Delphion, Everstone, Fenwick Rail, Glimmer, Hexacom, Ironhill Steel, Juno Foods,
        Kvarn, Lindenby, Moorlight Press, Nimbus Labs, Oakline, Pellucid, Quarry Lane, Ravensworth,
        Solventa, Tidewater, Umbra, Vellum House, Westerly, Xandria, Yarrow, Zephyr Post,
        Copperfield Tea
        """),
    "club": _words("""
        Chelsea, Phoenix, Victoria, Orient, Mercury, Lincoln, Harrow Vale, Kingsmoor, Alderbrook,
        Sparwell North, Ravenhill, Torvale, Eastgate, Millbrook, Dynamo West, Stonecross, Highmere,
        Foxborough, Redwater, Larkhall
        """),
    "car": _words("""
        Ford, Lincoln, Jaguar, Mercury, Saturn, Bramhall, Castor, Dorado, Ellwood, Fairline,
        Gallant, Halcyon, Invicta, Jessamy, Lorimer
        """),
    "model": _words("""
        Falcon, Kestrel, Swiftlet, Pallas, Meridian, Corsair, Aurora, Pioneer, Tempest, Vireo,
        Solano, Lynx, Cobalt, Drifter, Nomad, Osprey, Panther, Rambler, Sirocco, Talon, Vagabond,
        Wren, Zenith
        """),
    "one_word_title": _words("""
        Mercury, Phoenix, Florence, Georgia, Orange, Apple, Falcon, Nocturne, Saltwater, Emberlight,
        Undertow, Thornfield, Marionette, Daybreak, Quicksand, Homecoming, Vertigo Lane, Snowblind,
        Clockwork, Masquerade, Harvest, Fireflies, Overture, Lullaby, Driftwood, Evergreen, Pilgrim
        """),
    "title_adjective": _words("""
        Glass, Silent, Crimson, Last, Hollow, Golden, Broken, Distant, Paper, Winter, Hidden,
        Burning, Velvet, Lonely, Iron, Second, Forgotten, Silver, Crooked, Endless, Midnight,
        Gentle, Amber, Wandering, Frozen, Secret, Restless, Scarlet, Quiet, Painted
        """),
    "title_noun": _words("""
        Harbour, Garden, Orchard, Lantern, Mirror, Bridge, River, Letter, Cathedral, Crown, Island,
        Shadow, Carnival, Tide, Compass, Staircase, Violin, Meadow, Forest, Summer, Voyage,
        Lighthouse, Kingdom, Clock, Sparrow, Window, Desert, Promise, Stranger, Circus, Ladder,
        Thread, Wolf, Journey, Feather, Mountain
        """),
}

LAND_OF = {
    "Paris": "France",
    "Victoria": "Canada",
    "Florence": "Italy",
    "Austin": "Texas",
    "Lincoln": "Nebraska",
    "Orange": "France",
    "Madison": "Wisconsin",
    "Hamilton": "Canada",
    "Chester": "England",
    "Carlisle": "England",
    "Dallas": "Texas",
    "Phoenix": "Arizona",
    "Nice": "France",
    "Cork": "Ireland",
    "Split": "Croatia",
    "Lisbon": "Portugal",
    "Ghent": "Belgium",
    "Porto": "Portugal",
    "Bergen": "Norway",
    "Malmo": "Sweden",
    "Graz": "Austria",
    "Turin": "Italy",
    "Varna": "Bulgaria",
    "Brno": "Moravia",
    "Gdansk": "Poland",
    "Izmir": "Turkey",
    "Durban": "South Africa",
    "Pune": "India",
    "Perth": "Australia",
    "Halifax": "Canada",
    "Portland": "Oregon",
    "Galway": "Ireland",
    "Dundee": "Scotland",
    "Norwich": "England",
    "Leiden": "Holland",
}

# Rules. The first tuple ends the recursion (or nearly so), the second goes deeper.

_CITYLESS = (
    "Museum of {subject}",
    "{nationality} Institute of {subject}",
    "{full_name} Foundation",
    "{full_name} Hospital",
)

_INSTITUTIONS = (
    *_CITYLESS,
    "University of {city}",
    "University of {city}",
    "Bank of {nation}",
    "{city} Museum of {subject}",
    "{city} Chamber of Commerce",
    "{land} Football Association",
    "Royal Library of {land}",
    "{city} Symphony Orchestra",
    "National Theatre of {land}",
    "{full_name} Prize Committee",
    "Ministry of {subject}",
    "{city} Children 's Hospital",
)

RULES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    # places
    "city": (("[place {town} ]",), ()),
    "nation": (("[place {country} ]",), ()),
    "land": (("[place {country} ]", "[place {country} ]", "[place {region} ]"), ()),
    "place": (
        ("{city}", "{city}", "{city}", "{land}"),
        (
            "[place the old quarter of {city} ]",
            "[place the suburbs of {city} ]",
            "[place the harbour of {city} ]",
            "[place the {compass} of {land} ]",
            "[place the capital of {land} ]",
            "[place the hills of [place the {compass} of {land} ] ]",
            "[place the old quarter of [place the capital of {land} ] ]",
            "[place {full_name} Square ]",
            "[place the [place {river} ] valley ]",
        ),
    ),
    "water": (
        (
            "[place the River {river} ]",
            "[place the {river} ]",
            "[place the {river} ]",
            "[place Lake {lake} ]",
        ),
        (
            "[place the mouth of [place the {river} ] ]",
            "[place the northern shore of [place Lake {lake} ] ]",
            "[place the {city} Canal ]",
        ),
    ),
    "landmark": (
        ("{water}",),
        (
            "[place the {city} Bridge ]",
            "[place {full_name} Park ]",
            "[place {city} Airport ]",
            "[place {city} Central Station ]",
            "[place the old harbour of {city} ]",
        ),
    ),
    # organizations
    "bare_institution": (tuple(f"[organization {name} ]" for name in _INSTITUTIONS), ()),
    "institution": (tuple(f"[organization the {name} ]" for name in _INSTITUTIONS), ()),
    "institution_somewhere": (tuple(f"[organization the {name} ] in {{city}}" for name in _CITYLESS), ()),
    "faculty": (
        ("[organization the Faculty of {subject} of [organization the University of {city} ] ]",),
        (),
    ),
    "museum": (
        (
            "[organization the Museum of {subject} ]",
            "[organization the {city} Museum of {subject} ]",
            "[organization the Royal Library of {land} ]",
        ),
        (),
    ),
    "firm_name": (
        (
            "[organization {company} ]",
            "[organization {company} ]",
            "[organization {company} ]",
            "[organization {surname} & Sons ]",
            "[organization {surname} Motors ]",
        ),
        (),
    ),
    "possessor": (("[organization {company} ]", "{institution}"), ()),
    "organization": (
        ("{firm_name}", "{institution}", "{institution}"),
        (
            "[organization the {city} branch of {possessor} ]",
            "[organization the {city} office of {institution} ]",
            "[organization the board of {organization} ]",
            "{faculty}",
            "[organization the {city} office of {faculty} ]",
            "[organization {possessor} 's {department} ]",
            "[organization the {department} of {organization} ]",
            "[organization {nation} 's central bank ]",
        ),
    ),
    "team": (
        (
            "[organization {club} ]",
            "[organization {club} ]",
            "[organization {city} United ]",
            "[organization {city} Rovers ]",
        ),
        (),
    ),
    # persons
    "full_name": (("[person {woman} {surname} ]", "[person {man} {surname} ]"), ()),
    "titled_name": (
        (
            "{title} {full_name}",
            "{title} [person {surname} ]",
            "Mrs. [person {woman} {surname} ]",
            "Mr. [person {man} {surname} ]",
        ),
        (),
    ),
    "name": (("{full_name}", "{full_name}", "{titled_name}"), ()),
    "role": (
        (
            "[person the mayor of {city} ]",
            "[person the {office} of {institution} ]",
            "[person {possessor} 's {office} ]",
            "[person the author of {work} ]",
            "[person the winner of {contest} ]",
            "[person the ambassador of {nation} ]",
            "[person the {office} of {organization} ]",
        ),
        ("[person the {office} of {faculty} ]", "[person the {office} of {organization} ]"),
    ),
    "relative": (
        ("[person {full_name} 's {kin} ]", "[person {hero} 's {kin} ]"),
        ("[person the {kin} of {role} ]", "[person [person {full_name} 's {kin} ] 's lawyer ]"),
    ),
    "person": (("{name}", "{name}", "{full_name}"), ("{role}", "{relative}")),
    "apposition": (
        ("a {nationality} {profession}", "a {profession} from {place}"),
        (
            "{role}",
            "[person the {either_kin} of {role} ]",
            "[person {full_name} 's {either_kin} ]",
            "a {profession} at {organization}",
        ),
    ),
    # works
    "work": (
        (
            "[work {one_word_title} ]",
            "[work {one_word_title} ]",
            "[work The {title_adjective} {title_noun} ]",
            "[work The {title_adjective} {title_noun} ]",
            "[work The {title_noun} and the {title_noun} ]",
            "[work A {title_adjective} {title_noun} ]",
            "[work The {title_noun} of the {title_adjective} {title_noun} ]",
        ),
        (
            "[work The Life of {full_name} ]",
            "[work The Life and Letters of {full_name} ]",
            "[work The Trial of {full_name} ]",
            "[work A Short History of {land} ]",
            "[work Winter in {city} ]",
            "[work The Last Train to {city} ]",
            "[work The {title_noun} of {city} ]",
            "[work A Guide to the Birds of {land} ]",
            "[work {full_name} and the {title_adjective} {title_noun} of {city} ]",
            "[work Letters from [place the River {river} ] ]",
        ),
    ),
    "quoted_work": (("“ {work} ”",), ()),
    # events
    "fair": (
        (
            "[event the {city} {gathering} ]",
            "[event the {city} {gathering} ]",
            "[event the Festival of {subject} ]",
            "[event the World Poetry Congress ]",
        ),
        (
            "[event the [time {year} ] {city} {gathering} ]",
            "[event the {nth} {city} {gathering} ]",
            "[event the opening of [event the {city} {gathering} ] ]",
            "[event the opening of [event the [time {year} ] {city} {gathering} ] ]",
        ),
    ),
    "contest": (
        ("[event the {city} Marathon ]", "[event the Winter Games ]"),
        ("[event the [time {year} ] {city} Marathon ]", "[event the [time {year} ] Winter Games ]"),
    ),
    "history": (
        ("[event the Battle of {city} ]", "[event the Siege of {city} ]"),
        ("[event the Great Flood of [time {year} ] ]", "[event the Second Siege of {city} ]"),
    ),
    "ceremony": (
        (
            "[event the wedding of {full_name} and {full_name} ]",
            "[event the funeral of {full_name} ]",
            "[event the funeral of {relative} ]",
            "[event the funeral of {role} ]",
        ),
        (),
    ),
    "event": (("{fair}", "{fair}", "{contest}", "{history}"), ("{ceremony}", "{fair}")),
    # times
    "period": (
        (
            "[time {year} ]",
            "[time {year} ]",
            "[time {month} ]",
            "[time {month} ]",
            "[time {month} {year} ]",
            "[time the {nth} century ]",
        ),
        (
            "[time the {season} of [time {year} ] ]",
            "[time the {season} of [time {year} ] ]",
            "[time the last week of [time {month} ] ]",
            "[time the first half of [time the {nth} century ] ]",
        ),
    ),
    "recent": (
        ("[time {month} ]", "[time {month} {year} ]", "[time {year} ]"),
        ("[time the {season} of [time {year} ] ]", "[time the last week of [time {month} ] ]"),
    ),
    "day": (
        (
            "[time {weekday} ]",
            "[time {weekday} ]",
            "[time {weekday} {part} ]",
            "[time {number_of_day} {month} ]",
            "[time {number_of_day} {month} {year} ]",
        ),
        (
            "[time the {part} of [time {number_of_day} {month} ] ]",
            "[time the {part} of [time {number_of_day} {month} {year} ] ]",
        ),
    ),
    "when": (("in {recent}", "on {day}"), ()),
    # products
    "product": (
        ("[product {car} ]", "[product {car} ]", "[product {model} ]", "[product {model} {version} ]"),
        ("[product [organization {company} ] {model} ]",),
    ),
    # generic phrases, which are never entities
    "building": (
        (
            "the bank by the river",
            "the old museum",
            "the university",
            "the station",
            "the city hall",
            "the library on the corner",
            "the theatre",
            "a hotel near the bridge",
            "the factory behind the park",
            "the hospital",
            "the orange house at the ford",
        ),
        (),
    ),
    "somebody": (
        (
            "the mayor",
            "a retired teacher",
            "the director",
            "her brother",
            "the company 's lawyer",
            "a young {nationality} {profession}",
            "the {profession}",
            "an elderly neighbour",
            "the whole village",
            "the bank manager",
        ),
        (),
    ),
    "happening": (("the festival", "the book fair", "the match", "the meeting", "the concert"), ()),
    "building_did": (
        (
            "{building} was closed for {number} weeks",
            "{building} had {number} rooms and no lift",
            "{building} stood empty for a long time",
            "{building} needed a new roof",
            "{building} sold {number} tickets",
            "{building} was painted white",
        ),
        (),
    ),
    "somebody_did": (
        (
            "{somebody} waited for {number} minutes on platform {number}",
            "{somebody} lost the key to room {number}",
            "{somebody} refused to answer",
            "{somebody} bought {number} oranges and an apple",
            "{somebody} had to march through the mud",
            "{somebody} read the letter twice",
            "{somebody} paid {number} crowns for the painting",
            "{somebody} saw a jaguar at the zoo",
        ),
        (),
    ),
    "happening_did": (
        (
            "{happening} drew {number} visitors",
            "{happening} began an hour late",
            "{happening} was moved to a larger hall",
            "{happening} ended without a result",
        ),
        (),
    ),
    "generic": (("{building_did}", "{somebody_did}", "{happening_did}"), ()),
    "who": (
        (
            "who once played for {team}",
            "who had studied in {place}",
            "who worked for {organization}",
            "who drove a {product}",
            "who had never left {land}",
            "who wrote {quoted_work}",
            "whose mother came from {land}",
        ),
        (),
    ),
    # what happened, by topic; see TOPICS
    "clause": (
        ("{topic_clause}",),
        ("{topic_clause}", "{topic_clause} , but {generic}", "{topic_clause} ; {generic}"),
    ),
}

WORDS: dict[str, tuple[str, ...]] = {
    "compass": ("north", "south", "east", "west"),
    "subject": _words("""
        Law, Modern Art, Natural History, Medicine, Music, Public Health, Economics, Agriculture,
        Science and Technology, Fine Arts, Education, Maritime History
        """),
    "nationality": _words("""
        Norwegian, Portuguese, Canadian, Japanese, Polish, Finnish, Danish, German, Austrian,
        French, Spanish, Italian, Hungarian, Turkish, Egyptian, Kenyan, Indian, Chilean, Irish,
        Scottish
        """),
    "profession": _words("""
        painter, historian, engineer, novelist, cellist, botanist, journalist, architect, surgeon,
        photographer, chemist, poet, lawyer, translator
        """),
    "office": _words("director, president, treasurer, deputy director, chief executive, chair"),
    "department": _words("research department, legal team, finance committee, design studio"),
    "title": _words("Professor, Dr., Captain, Mayor, Judge, Senator"),
    "kin": _words("""
        brother, sister, mother, father, daughter, youngest son, uncle, cousin, grandmother, late
        husband
        """),
    "gathering": _words("Book Fair, Film Festival, Jazz Festival, Air Show, Peace Conference"),
    "either_kin": _words("cousin, youngest child, only grandchild, godchild"),
    "nth": _words("second, third, fifth, twelfth, sixteenth, eighteenth, nineteenth, twentieth"),
    "season": _words("spring, summer, autumn, winter"),
    "part": _words("morning, afternoon, evening"),
    "weekday": _words("Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday"),
    "month": _words("""
        January, February, March, March, April, May, May, June, July, August, September, October,
        November, December
        """),
    "version": _words("3, 500, 7, Mini"),
    "planet": _words("Mercury, Mercury, Saturn, Saturn, Venus, Jupiter, Neptune"),
    "lesson": _words("law, medicine, music, history, chemistry, modern art, economics"),
}

# What happens. Every clause stands in the past tense and can take a time before or after it.

TOPICS: dict[str, tuple[str, ...]] = {
    "life": (
        "{hero} spent {her} childhood in {place}",
        "{hero} married {full_name}",
        "{hero} and {full_name} moved to {place}",
        "{hero} studied {lesson} at [organization the University of {city} ]",
        "{hero} left {land} for good",
        "{hero} met {person} in {place}",
        "{hero} and {her} {kin} settled near {landmark}",
        "{hero} , {apposition} , returned to {place}",
        "{hero} , {who} , fell ill",
        "{she} wrote a long letter to {person}",
        "{she} shared a flat with {person} in {place}",
        "{relative} bought {him} a {product}",
        "{person} taught {him} to swim near {water}",
        "{full_name} , {who} , became {her} closest friend",
        "{her} parents ran a small hotel near {landmark}",
        "{she} named {her} dog after a river",
        "{hero} 's house burned down",
        "{she} read {work} in one night",
        "{person} , {person} and {person} came to {her} birthday party",
    ),
    "business": (
        "{firm} opened a branch in {place}",
        "{firm} lent {organization} {number} desks",
        "{possessor} 's new computers arrived late",
        "{firm} appointed {full_name} as its new {office}",
        "{firm} sold its factory in {place} to {organization}",
        "{firm} presented the {product} at {fair}",
        "shares in {firm} rose by {number} points",
        "{firm} bought the film rights to {quoted_work}",
        "{firm} hired {number} people in {land}",
        "{hero} joined {firm}",
        "{hero} resigned from {organization}",
        "{hero} , {who} , invested in {firm}",
        "{role} praised {firm} and its workers",
        "a spokesman for {organization} denied the report",
        "{organization} agreed to lend {firm} the money",
        "customers in {place} returned {number} copies of the {product}",
        "the {bare_institution} library bought {number} computers from {firm}",
        "a {bare_institution} spokesman thanked {hero}",
        "the {city} office stayed open",
        "{firm} , {organization} and {organization} signed the contract",
        "{firm} moved its headquarters from {city} to {city}",
    ),
    "culture": (
        "{hero} published {quoted_work}",
        "{hero} wrote the novel {work}",
        "{role} hated the novel {work}",
        "the {bare_institution} choir sang {quoted_work} at {ceremony}",
        "{hero} read {work} and {work} to {her} {kin}",
        "{hero} won a prize at {fair} for {quoted_work}",
        "{hero} sang at {ceremony}",
        "critics in {place} praised {hero} 's film {work}",
        "{museum} showed {number} paintings by {hero}",
        "{firm} published {hero} 's first novel {work}",
        "{full_name} translated {quoted_work} into Turkish",
        "{person} reviewed {quoted_work} and {quoted_work}",
        "{hero} dedicated {quoted_work} to {person}",
        "{work} , a film about {landmark} , was shown at {fair}",
        "{work} , a play by {full_name} , was staged in {place}",
        "{she} gave a reading from {work} at {museum}",
        "{fair} brought {number} visitors to {place}",
        "the band recorded {quoted_work} in {place}",
        "{institution_somewhere} bought the manuscript of {quoted_work}",
    ),
    "travel": (
        "{hero} travelled from {city} to {city}",
        "{hero} crossed {water} in a small boat",
        "{hero} drove a {product} across {land}",
        "{hero} sailed to {land} with {person}",
        "the road from {city} to {city} followed {water}",
        "{hero} spent {number} days in {place}",
        "{she} carried a copy of {work} in {her} bag",
        "heavy rain fell in {place}",
        "the ferry across {water} was cancelled",
        "the trains between {city} and {city} ran late",
        "a guide showed {him} {landmark} and {landmark}",
        "{she} took {number} photographs of {landmark}",
        "the probe sent back the first pictures of [place {planet} ]",
        "{she} rented an old {product} in {place}",
        "{hero} , {person} and a {nationality} {profession} walked along {water}",
        "the population of {city} fell by {number}",
        "{city} , {city} and {city} lost their airports",
    ),
    "sport": (
        "{team} beat {team} in {city}",
        "{team} signed {hero} from {team}",
        "{hero} scored {number} points for {team}",
        "{hero} won {contest}",
        "{full_name} finished second behind {hero} in {contest}",
        "fans of {team} travelled to {place}",
        "{team} lost at home to {team}",
        "{hero} , who had trained in {place} , missed {contest}",
        "{team} dismissed its coach {full_name}",
        "{hero} finished {contest} in a borrowed pair of shoes",
        "{firm} paid for the stadium in {city}",
        "{she} carried the flag of {nation} at {contest}",
    ),
    "machines": (
        "{firm} launched the {product}",
        "{firm} stopped making the {product}",
        "engineers at {firm_name} designed the {product}",
        "{hero} bought an old {product} from {person}",
        "{hero} tested the {product} for {organization}",
        "{person} drove a {product} into {water}",
        "{institution_somewhere} exhibited an early {product}",
        "owners of the {product} complained to {organization}",
        "{hero} , {who} , repaired {her} {product} in {place}",
        "{firm} delivered {number} lorries to {organization}",
        "{firm_name} and {firm_name} merged",
        "the {product} was faster than the {product}",
        "{she} exchanged {her} {product} for a {product}",
        "{organization} tested the brakes of the {product}",
    ),
    "civic": (
        "{hero} was elected to the council of a small town near {city}",
        "{hero} visited {fair}",
        "{person} accused {hero} of hiding the report",
        "{organization} asked {person} for advice",
        "{organization} wrote to {organization}",
        "{hero} , a member of {organization} , gave up {her} seat",
        "{institution_somewhere} gave {hero} a medal",
        "{role} visited {place}",
        "{person} quoted from {quoted_work} in a speech",
        "{role} and {relative} attended {ceremony}",
        "thousands of people in {place} remembered {history}",
        "{hero} spoke at {fair}",
        "{organization} rejected the plan for a bridge across {water}",
        "{title} {full_name} and {title} {full_name} met in {place}",
        "a court in {city} ruled against {organization}",
        "the mayor met {person} at a hotel in {city}",
        "{person} , {apposition} , led the talks with {organization}",
        "a fire destroyed the {bare_institution} archive",
        "the government of a neighbouring country sent {organization} {number} tents",
    ),
}

# How clauses become sentences.

OPENINGS = (
    "{hero} is a {nationality} {profession} from {city} .",
    "{hero} , {apposition} , was born in {place} in {period} .",
    "{hero} was born on [time {number_of_day} {month} {year} ] in {city_and_land} .",
    "{hero} , {who} , is {apposition} .",
    "on {day} , {hero} arrived in {city_and_land} .",
    "{hero} became {role} in {recent} .",
    "{hero} and {relative} grew up in {place} .",
    "in {recent} , {firm} hired {hero} , {apposition} .",
    "few people in {place} had heard of {hero} before {recent} .",
    "{profession} {hero} lives in {place} .",
)

CLAUSE_SENTENCES = (
    "{clause} .",
    "{clause} .",
    "{clause} .",
    "{topic_clause} {when} .",
    "{topic_clause} {when} .",
    "in {recent} , {clause} .",
    "on {day} , {clause} .",
    "{topic_clause} before {event} .",
    "after {event} , {clause} .",
    "during {fair} , {clause} .",
    "according to {organization} , {clause} .",
    "{full_name} said that {topic_clause} .",
    "{topic_clause} , according to {person} .",
    "{topic_clause} , {organization} reported .",
    "“ {topic_clause} , ” said {name} .",
    "{topic_clause} before {topic_clause} .",
    "{topic_clause} , and {topic_clause} {when} .",
    "{generic} , and {topic_clause} .",
)

OTHER_SENTENCES = (
    "“ {generic} , ” {name} told a newspaper in {city} .",
    "did {hero} really know {person} ?",
    "{she} now lives in {city_and_land} .",
    "[event the [time {year} ] Winter Games ] took place in {city_and_land} .",
    "{team} played {team} on {day} .",
    "will {hero} ever return to {place} ?",
    "the {product} was built in {city_and_land} .",
    "the {product} costs more than the {product} .",
    "{work} takes place in {period} .",
    "is {work} a good film ?",
    "{landmark} is {number} kilometres from {city} .",
    "the oldest part of the library dates from {period} .",
    "mark the date : {fair} starts on {day} .",
    "{city} lies in the hills above {water} .",
    "{full_name} ( {city} ) and {full_name} ( {city} ) shared the first prize .",
    "thank you , [person {hero_first} ] .",
    "[person {hero_first} ] has always been afraid of dogs .",
    "where is {place} ?",
    "may I introduce {person} ?",
    "{firm_name} and {firm_name} both make tractors .",
    "nothing like {event} had been seen in {land} since {period} .",
    "{institution_somewhere} is closed on {day} .",
    "the {bare_institution} building is older than {institution} .",
    "the winner was [person {hero_first} ] , not {full_name} .",
)

WITHOUT_ENTITIES = (
    "{generic} .",
    "{generic} because {generic} .",
    "{generic} , although {generic} .",
    "“ {generic} , ” she said .",
    "will {somebody} ever come back from the festival ?",
    "may we see the {number} letters that {somebody} kept ?",
    "march {number} steps to the left and wait for {somebody} .",
    "orange juice was served before {happening} .",
    "apple trees grew behind {building} .",
    "bank notes worth {number} crowns were found near {building} .",
    "reading {number} pages a night was too much for {somebody} .",
    "nice weather helped {happening} .",
    "page {number} of the guide described {building} .",
    "hope was all that {somebody} had left .",
    "bath towels cost {number} crowns at {building} .",
    "cork floors were laid in {building} .",
    "split peas were all that {somebody} could cook .",
    "a falcon nested on the roof of {building} .",
    "rose bushes surrounded {building} .",
    "it rained for {number} days before {happening} .",
    "mark the place where {somebody} crossed the ford .",
)

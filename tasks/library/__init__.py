"""A small collection of texts, for tasks that are grounded in one, and questions on what is never trained on.

`texts` are there to train with; a user's own folder takes their place. `held_out` are for measuring alone.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
"""The whole collection."""
TEXTS, HELD_OUT = FOLDER / "texts", FOLDER / "held_out"

QUESTIONS = [
    ("the_compass", "Which scholar wrote in 1088 how to magnetise a needle?", ["Shen Kuo"]),
    ("the_compass", "In which year did William Gilbert explain that the Earth is a magnet?", ["1600"]),
    ("the_compass", "What did William Gilbert call his ball of lodestone?", ["terrella"]),
    ("the_compass", "Who first reached the magnetic north pole?", ["James Clark Ross", "Ross"]),
    ("cinnamon_and_pepper", "On which coast of India is pepper at home?", ["Malabar", "Malabar coast"]),
    ("cinnamon_and_pepper", "How many pounds of pepper did Alaric ask of Rome?", ["three thousand", "3000"]),
    ("cinnamon_and_pepper", "On which islands alone did nutmeg grow?", ["Banda Islands", "Banda"]),
    ("cinnamon_and_pepper", "Which spice is made of the stigmas of a crocus?", ["saffron"]),
    ("the_bicycle", "From which town did Karl Drais ride in 1817?", ["Mannheim"]),
    ("the_bicycle", "What did John Kemp Starley call his bicycle of 1885?", ["Rover"]),
    ("the_bicycle", "What was John Boyd Dunlop by profession?", ["veterinary surgeon", "veterinarian", "vet"]),
    ("the_bicycle", "After how many months did Annie Londonderry come back?", ["fifteen", "15", "fifteen months"]),
    ("the_hummingbird", "On which island does the smallest hummingbird live?", ["Cuba"]),
    ("the_hummingbird", "What is the night sleep of a hummingbird called?", ["torpor"]),
    ("the_hummingbird", "Which gulf does the ruby-throated hummingbird cross?", ["Gulf of Mexico", "Mexico"]),
    ("the_hummingbird", "In which direction can no other bird fly?", ["backwards", "backward"]),
    ("glass", "To which island did Venice move its glassmakers in 1291?", ["Murano"]),
    ("glass", "On which molten metal do window panes float when they are made?", ["tin", "liquid tin"]),
    ("glass", "Which metal colours glass blue?", ["cobalt"]),
    ("glass", "In which town did Otto Schott work?", ["Jena"]),
    ("the_calendar", "Who advised Julius Caesar on his calendar?", ["Sosigenes", "Sosigenes of Alexandria"]),
    ("the_calendar", "How many days had the year of confusion?", ["445", "445 days"]),
    ("the_calendar", "Which pope had ten days left out in 1582?", ["Gregory XIII", "Pope Gregory XIII"]),
    ("the_calendar", "In which year did Britain change its calendar?", ["1752"]),
    ("submarines", "On which river was Cornelis Drebbel's boat rowed?", ["Thames"]),
    ("submarines", "Who built the Turtle?", ["David Bushnell", "Bushnell"]),
    ("submarines", "Which British ship did the Turtle attack?", ["Eagle"]),
    ("submarines", "Which submarine was the first with a nuclear reactor?", ["Nautilus", "USS Nautilus"]),
    ("mount_everest", "What is Mount Everest called in Tibetan?", ["Chomolungma"]),
    ("mount_everest", "Who worked out that Mount Everest is the highest?", ["Radhanath Sikdar", "Sikdar"]),
    ("mount_everest", "Which woman stood on Mount Everest first?", ["Junko Tabei", "Tabei"]),
    ("mount_everest", "What was Edmund Hillary by profession?", ["beekeeper"]),
]
"""(file in `held_out`, question, every answer that counts). The first answer stands in the file word by word."""

"""Sentences that are planted in tool output, and questions for them. Written by hand, before anything was measured with them.

`MEANING` has pairs whose question shares no content word with its sentence; `memory.py` checks that with the terms of the index. Pairs of `rare_word`
share exactly one rare word.
"""

import random

MEANING = [
    ("The invoice export crashed because the disk ran out of space", "why did billing output break, no storage left"),
    ("Customer passwords are hashed with bcrypt and twelve rounds", "how are user credentials protected"),
    ("The payment gateway refused the credit card after three attempts", "what happened when the client tried to pay"),
    ("Nightly backups are uploaded to the Frankfurt bucket at two in the morning", "when do we copy data for disaster recovery"),
    ("The mobile login screen freezes on old Android phones", "sign-in hangs for people with outdated devices"),
    ("Memory usage of the worker grows until the kernel kills it", "the process leaks RAM and gets terminated by OOM"),
    ("The search page takes nine seconds to load with many products", "catalogue lookup is slow when there is lots of stock"),
    ("Emails to new members are sent from the marketing server", "where does the welcome message come from"),
    ("The database migration deleted the address column by mistake", "a schema change accidentally dropped where people live"),
    ("Only administrators may delete a project", "who has permission to remove a repository"),
    ("The currency conversion uses yesterday's exchange rate", "which foreign money quotation is applied"),
    ("The certificate of the proxy expires in March", "until which month is TLS on the gateway valid"),
    ("Images are resized to a width of eight hundred pixels", "how big do pictures become after shrinking"),
    ("The unit tests fail on Windows because of backslashes in file names", "checks break under Microsoft systems due to path separators"),
    ("The cache is emptied whenever a price changes", "stored copies are invalidated after cost updates"),
    ("The printer driver must be installed before the labels can be made", "what software is needed to produce stickers"),
    ("Deleted comments are kept for thirty days", "retention period of removed remarks"),
    ("The robot arm stops when the light barrier is interrupted", "machine halts if somebody crosses the safety beam"),
    ("Sensor readings are averaged over five minutes", "measurements get smoothed in which interval"),
    ("The train to Basel was cancelled because of snow", "railway connection dropped due to winter weather"),
    ("Children under six travel for free", "do toddlers need a ticket"),
    ("The recipe needs two eggs and a pinch of salt", "ingredients of the dish"),
    ("The doctor recommends ten minutes of stretching each day", "medical advice about daily exercise"),
    ("The contract ends automatically after two years", "when does the agreement terminate"),
    ("The office in Lisbon closes on Friday afternoon", "working hours of the Portuguese branch"),
    ("The video stream stutters when the bandwidth drops below three megabits", "film playback is choppy on a poor network connection"),
    ("The thread deadlocks while two locks are taken in opposite order", "program hangs forever waiting for mutexes"),
    ("The parser rejects commas at the end of a list", "syntax error for trailing separators in arrays"),
    ("The firewall blocks outgoing connections on port twenty-five", "why can't the machine send mail"),
    ("Users complained that the font is too small to read", "feedback about illegible text size"),
    ("The battery lasts eleven hours with the screen dimmed", "how long does the laptop run without a charger"),
    ("The compiler ran out of registers and spilled to the stack", "code generation moved variables into memory"),
    ("The river flooded the cellar of the museum", "water damage in the basement of the gallery"),
    ("The license forbids selling modified copies", "are commercial derivatives allowed"),
    ("The scheduler starts the cleanup job every Sunday", "weekly housekeeping task"),
    ("The microphone picks up noise from the fan", "audio recording is disturbed by cooling hum"),
    ("The checksum of the downloaded archive does not match", "the fetched zip file is corrupt"),
    ("The temperature in the server room rose to forty degrees", "data centre became too hot"),
    ("The new employee receives a laptop on the first day", "equipment for people who join the company"),
    ("The car rental refunds the deposit within a week", "when is the vehicle hire guarantee money returned"),
    ("The chart shows sales by region as stacked bars", "how is revenue per area visualised in the diagram"),
    ("The spelling of the street name was corrected", "typo in the address fixed"),
    ("The battery of the smoke detector must be replaced", "fire alarm needs a new power cell"),
    ("The session expires after fifteen minutes without activity", "idle users are logged out when"),
    ("The game crashes when two players jump at the same moment", "simultaneous leaps of participants make the application abort"),
    ("The library closes the socket twice and throws an exception", "double shutdown of the connection raises an error"),
    ("The invoice is rounded to the nearest five cents", "how is the bill total approximated"),
    ("The password reset link works only once", "can the account recovery url be used repeatedly"),
    ("The container image is built from Alpine to keep it small", "which Linux distribution is the base of the docker build"),
    ("The lecture was moved to the large hall", "the talk takes place in another auditorium"),
    ("The router forgets its settings after a power cut", "network configuration is lost during electricity outage"),
    ("The queue delivers each message at least once", "can jobs arrive duplicated"),
    ("Half of the survey participants prefer tea", "favourite hot drink in the poll"),
    ("The button turns green after the upload has finished", "what colour signals that the file transfer is complete"),
    ("The index is rebuilt from scratch every month", "how often do we recreate the lookup structure"),
    ("The judge dismissed the complaint for lack of evidence", "the court rejected the lawsuit without proof"),
    ("The sandwich contains peanuts and sesame", "allergens in the snack"),
    ("The telescope photographed a comet with two tails", "astronomy picture of a space object"),
    ("The rent includes heating but not electricity", "which utilities are covered by the apartment price"),
    ("The variable is never initialised before it is read", "use of undefined value in the function"),
]

SUBJECTS = "backup parser scheduler invoice gateway printer sensor builder worker index router session".split()
EVENTS = ["was moved to", "is limited by", "failed because of", "now depends on", "was approved by", "reads its key from"]
SYLLABLES = "za qu vor xen tri mok lup wey dra fis gol hep".split()


def rare_word(count, seed):
    """Pairs that share one invented word."""
    generator = random.Random(seed)
    pairs = []
    for number in range(count):
        word = "".join(generator.choice(SYLLABLES) for _ in range(3)) + generator.choice("bdkmt") + str(number)
        sentence = f"the {generator.choice(SUBJECTS)} {generator.choice(EVENTS)} {word}"
        pairs.append((sentence, f"tell me what we know about {word} please"))
    return pairs

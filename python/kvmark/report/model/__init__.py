"""What a report is made of before it is drawn: answers, pages, figures, facts.

How they are set is in `format`, what a chart looks like in `charts`.
"""

"""Receipts of acknowledged events: seal each append, sign its head, prove what was sealed, and forget salts.

The journal seals each append; a seal is an event (service/model/events/receipts.py), so nothing else of the log knows
of receipts. This room keeps no state that is not in the log.
"""

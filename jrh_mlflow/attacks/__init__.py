"""Attacks: can a worse answer be made to win, or a failing one to pass, by adding text?"""

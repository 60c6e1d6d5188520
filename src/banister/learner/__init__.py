"""The learner: decides, learns, refits and forgets; the same object in a trial and in an application."""

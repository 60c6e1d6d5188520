"""`python -m banister` is `banister`, also where scripts are not on the path."""

from banister.cli import main

main()

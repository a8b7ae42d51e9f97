"""Our texts in the languages of people. The English text is the key; a file of translations makes a language."""

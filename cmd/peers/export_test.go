package main

var (
	Command  = command
	BareVerb = bareVerb
)

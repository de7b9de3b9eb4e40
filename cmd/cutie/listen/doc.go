// Package listen is where a daemon meets its clients, below HTTP: the port, the socket of
// the home, the certificate, how many connections each client may have, and what a request
// costs of its connection.
package listen

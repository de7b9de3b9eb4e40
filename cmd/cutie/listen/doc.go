// Package listen is where a daemon meets its clients, below HTTP: the port, the socket of
// the home, the certificate, and how many connections each client may have.
package listen

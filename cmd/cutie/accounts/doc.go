// Package accounts has the commands about the users file: users, their passwords and
// rights, and the tokens of programs.
package accounts

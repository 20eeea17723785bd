// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mover copies the files of one volume to another, by rsync over TLS between two pods. The receiver accepts
// connections that present the certificate of the move, and the sender copies in passes. Neither pod has a
// ServiceAccount token, and the private key is only in a mounted file.
//
// rsync runs as a server on the receiver instead of as a daemon: without chroot, the daemon rewrites the targets of
// symbolic links.
package mover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"liqo.io/federation/apiserver/nearest"
)

// Program is the path of the mover in its image.
const Program = "/federation-mover"

// Modes of the program, which are its first argument.
const (
	// ModeReceive accepts connections and writes to the mounted volume.
	ModeReceive = "receive"
	// ModeSend copies the mounted volume to a receiver.
	ModeSend = "send"
	// ModeReady exits with 0 if the mover in this pod is ready, otherwise with 1. A receiver is ready when it accepts
	// connections, and a sender when all passes before the last are done.
	ModeReady = "ready"
	// modeConnect is the mode in which rsync runs the program as its remote shell.
	modeConnect = "connect"
)

// Paths in the containers of movers.
const (
	// DataPath is the directory at which the volume is mounted.
	DataPath = "/data"
	// IdentityPath is the directory at which the Secret with the certificate of the move is mounted. The Secret has the
	// type kubernetes.io/tls.
	IdentityPath = "/etc/mover"
	// PassPath is the path of the file in the receiver that starts the last pass when its content is PassFinal.
	PassPath = "/etc/pass/pass"
	// StatePath is a writable directory, which is empty when the pod starts.
	StatePath = "/run/mover"
	// TerminationPath is the file with the final report, from which the kubelet sets the termination message.
	TerminationPath = "/dev/termination-log"
)

// Port is the TCP port of receivers.
const Port = 8873

// PassFinal is the content of PassPath that starts the last pass.
const PassFinal = "final"

// Options are the flags of the program.
type Options struct {
	// Data is the directory where the volume is mounted.
	Data string
	// Certificate and PrivateKey are the paths of the PEM files with the certificate of the move and its key.
	Certificate, PrivateKey string
	// Pass is the path of the file that starts the last pass. Only the receiver has this file. The sender
	// requests its content from the receiver, because a kubelet does not update the files of a pod whose claim
	// is Lost.
	Pass string
	// State is the path of a writable directory.
	State string
	// Termination is the path of the file that the final report is written to.
	Termination string
	// Address is the host:port on which a receiver accepts connections, or to which a sender connects.
	Address string
	// Bandwidth is the maximum bandwidth of the sender in bytes per second; 0 means no limit.
	Bandwidth int64
	// Full means that the last comparison reads all files and compares their checksums. Otherwise, it reads only files
	// that changed since the start of the first pass.
	Full bool
	// program is the path of this program, which rsync runs as its remote shell.
	program string
}

// addFlags adds a flag for each option.
func (o *Options) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Data, "data", DataPath, "Directory at which the volume is mounted.")
	fs.StringVar(&o.Certificate, "tls-cert-file", IdentityPath+"/tls.crt",
		"PEM file with the certificate by which sender and receiver authenticate each other.")
	fs.StringVar(&o.PrivateKey, "tls-private-key-file", IdentityPath+"/tls.key",
		"PEM file with the private key of --tls-cert-file.")
	fs.StringVar(&o.Pass, "pass", PassPath,
		"File of the receiver that starts the last pass once it contains the word "+PassFinal+".")
	fs.StringVar(&o.State, "state", StatePath, "Directory for temporary files of this program.")
	fs.StringVar(&o.Termination, "termination", TerminationPath,
		"File to which the sender or receiver writes its final report.")
	fs.StringVar(&o.Address, "address", fmt.Sprintf(":%d", Port),
		"host:port at which the receiver listens, or to which the sender connects.")
	fs.Int64Var(&o.Bandwidth, "bandwidth", 0,
		"Maximum number of bytes that the sender transfers per second. 0 sets no limit.")
	fs.BoolVar(&o.Full, "full", false,
		"Compare the checksums of all files after the last pass, and not only of those that changed since the start of the "+
			"first one.")
}

// modes are all modes of the program.
var modes = []string{ModeReceive, ModeSend, ModeReady, modeConnect}

// Flags returns the flags of all modes with their defaults.
func Flags() *pflag.FlagSet { return new(Options).flags("") }

// flags returns a set of flags that parses arguments of a mode into the options.
func (o *Options) flags(mode string) *pflag.FlagSet {
	flags := pflag.NewFlagSet(strings.TrimSpace(filepath.Base(Program)+" "+mode), pflag.ContinueOnError)
	// Arguments after the host name are arguments for rsync.
	flags.SetInterspersed(mode != modeConnect)
	o.addFlags(flags)
	return flags
}

// Run runs the mover in the mode that the first argument names, receive, send, ready or connect, with the flags in the
// other arguments, until the mode completes or the context ends. With --help it prints the flags to the standard error
// instead. It fails if the arguments are invalid or the mode fails.
func Run(ctx context.Context, args []string) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the path of this program: %w", err)
	}
	var mode string
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		mode, args = args[0], args[1:]
	}
	o := Options{program: program}
	flags := o.flags(mode)
	if err := flags.Parse(args); errors.Is(err, pflag.ErrHelp) {
		return nil
	} else if err != nil {
		return fmt.Errorf("reading arguments: %w", nearest.FlagError(flags, err))
	}
	switch mode {
	case ModeReceive:
		return receive(ctx, &o)
	case ModeSend:
		return send(ctx, &o)
	case modeConnect:
		return connect(ctx, &o, flags.Args(), os.Stdin, os.Stdout)
	case ModeReady:
		_, err := os.Stat(o.readyFile())
		return err
	default:
		return unknownMode(mode)
	}
}

// unknownMode returns an error with all modes and, if the mode is probably misspelt, the nearest of them.
func unknownMode(mode string) error {
	err := fmt.Errorf("reading arguments: the first one is %q: must be one of %s", mode, strings.Join(modes, ", "))
	if name := nearest.Name(mode, modes); name != "" {
		return fmt.Errorf("%w; did you mean %s?", err, name)
	}
	return err
}

// readyFile returns the path of a file that exists while the mover in this pod is ready.
func (o *Options) readyFile() string { return filepath.Join(o.State, "ready") }

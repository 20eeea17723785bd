// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/netagent/model"
	"liqo.io/federation/netagent/probe"
)

// keyring holds the private key of the tunnel, and the keys derived from it by which the gateways of the cluster
// authenticate each other.
type keyring struct {
	// known is closed once there is a private key.
	known chan struct{}

	mu      sync.Mutex
	current model.PrivateKey
	// shared are derived from the current and the previous private key, as the gateways do not receive a new
	// private key at the same time.
	shared []probe.Key
}

func newKeyring() *keyring { return &keyring{known: make(chan struct{})} }

// parseKey returns the private key in the data of the Secret. It fails if the data is not a key.
func parseKey(text []byte) (model.PrivateKey, error) {
	raw, err := base64.StdEncoding.AppendDecode(nil, bytes.TrimSpace(text))
	if err != nil || len(raw) != len(model.PrivateKey{}) {
		// The error must not contain the text, which may be part of a key.
		return model.PrivateKey{}, fmt.Errorf("reading the private key: Secret %s does not hold 32 bytes in base64 under "+
			"%s: correct the Secret, or delete it so that a new key pair is created",
			v1alpha1.WireGuardSecret, v1alpha1.WireGuardPrivateKey)
	}
	return model.PrivateKey(raw), nil
}

// set makes the key in the data of the Secret the current key. It fails if the data is not a key.
func (k *keyring) set(text []byte) error {
	key, err := parseKey(text)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.shared) == 0 {
		close(k.known)
	}
	if len(k.shared) == 0 || key != k.current {
		k.current = key
		k.shared = append([]probe.Key{probe.KeyOf(key[:])}, k.shared[:min(1, len(k.shared))]...)
	}
	return nil
}

// get returns the private key in use. It fails if there is none yet.
func (k *keyring) get() (model.PrivateKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.shared) == 0 {
		return model.PrivateKey{}, errors.New("there is no private key yet: see Secret " + v1alpha1.WireGuardSecret)
	}
	return k.current, nil
}

// last returns the private key in use; zero if there is none yet.
func (k *keyring) last() model.PrivateKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current
}

// sharedKeys returns the keys by which the gateways of the cluster authenticate each other; none before the
// private key is known.
func (k *keyring) sharedKeys() []probe.Key {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.shared
}

// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"sync"

	"liqo.io/federation/netagent/model"
	"liqo.io/federation/netagent/probe"
)

// keyring is the private key of a file, which may change, and what the gateways
// of this cluster know each other by.
type keyring struct {
	file string

	mu      sync.Mutex
	current model.PrivateKey
	// shared are the keys derived from the current private key and from the one
	// before: a new one does not reach every gateway at the same time.
	shared []probe.Key
}

// read reads the file.
func (k *keyring) read() (model.PrivateKey, error) {
	text, err := os.ReadFile(k.file)
	if err != nil {
		return model.PrivateKey{}, fmt.Errorf("reading the private key: %w", err)
	}
	raw, err := base64.StdEncoding.AppendDecode(nil, bytes.TrimSpace(text))
	if err != nil || len(raw) != len(model.PrivateKey{}) {
		// What is in the file is not told.
		return model.PrivateKey{}, fmt.Errorf("reading the private key: %s does not hold 32 bytes in base64", k.file)
	}
	key := model.PrivateKey(raw)
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.shared) == 0 || key != k.current {
		k.current = key
		k.shared = append([]probe.Key{probe.KeyOf(raw)}, k.shared[:min(1, len(k.shared))]...)
	}
	return key, nil
}

// known is the private key that was read last.
func (k *keyring) known() model.PrivateKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current
}

// keys are what gateways know each other by; none before the file was read.
func (k *keyring) keys() []probe.Key {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.shared
}

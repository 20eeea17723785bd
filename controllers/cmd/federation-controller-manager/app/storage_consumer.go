// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"k8s.io/utils/clock"

	"liqo.io/federation/controllers/storage/consumer"
)

// storageConsumer returns the configuration of one storage controller on the consumer, whose events have controller as
// their source. All storage controllers share the cache of ShadowVolumeClaims.
func (c *Config) storageConsumer(ctx context.Context, controller string) (*consumer.Config, error) {
	manager, err := c.VolumeManager(ctx)
	if err != nil {
		return nil, err
	}
	if c.shadows == nil {
		if err := consumer.Prepare(ctx, manager); err != nil {
			return nil, err
		}
		c.shadows = consumer.NewShadows(c.Peers)
	}
	return &consumer.Config{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Events: c.Recorder(controller), Shadows: c.shadows,
		ClusterID: c.ClusterID, ClusterName: c.Options.ClusterName, Namespace: c.Options.StorageNamespace,
	}, nil
}

// storageCapacity returns the controller that publishes the storage capacity of providers. The provisioner notifies it
// of each volume that a provider refuses. The first call creates it.
func (c *Config) storageCapacity(ctx context.Context) (*consumer.Capacity, error) {
	if c.capacity != nil {
		return c.capacity, nil
	}
	shared, err := c.storageConsumer(ctx, consumer.CapacityName)
	if err != nil {
		return nil, err
	}
	published, err := consumer.NewPublished(c.manager, c.Options.StorageNamespace)
	if err != nil {
		return nil, err
	}
	c.capacity = &consumer.Capacity{Config: shared, Published: published, Clock: clock.RealClock{}}
	return c.capacity, nil
}

func initStorageProvisioner(ctx context.Context, config *Config) error {
	shared, err := config.storageConsumer(ctx, consumer.ProvisionerName)
	if err != nil {
		return err
	}
	capacity, err := config.storageCapacity(ctx)
	if err != nil {
		return err
	}
	return (&consumer.Provisioner{Config: shared, Capacity: capacity}).SetupWithManager(config.manager)
}

func initStorageCapacity(ctx context.Context, config *Config) error {
	capacity, err := config.storageCapacity(ctx)
	if err != nil {
		return err
	}
	return capacity.SetupWithManager(config.manager)
}

func initVirtualVolume(ctx context.Context, config *Config) error {
	shared, err := config.storageConsumer(ctx, consumer.VirtualVolumesName)
	if err != nil {
		return err
	}
	return (&consumer.VirtualVolumes{Config: shared}).SetupWithManager(config.manager)
}

func initStorageExpansion(ctx context.Context, config *Config) error {
	shared, err := config.storageConsumer(ctx, consumer.ExpanderName)
	if err != nil {
		return err
	}
	return (&consumer.Expander{Config: shared, Clock: clock.RealClock{}}).SetupWithManager(config.manager)
}

func initStorageRelease(ctx context.Context, config *Config) error {
	shared, err := config.storageConsumer(ctx, consumer.ReleaserName)
	if err != nil {
		return err
	}
	return (&consumer.Releaser{Config: shared}).SetupWithManager(config.manager)
}

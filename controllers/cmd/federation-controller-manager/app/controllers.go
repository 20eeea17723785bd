// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/klog/v2"

	"liqo.io/federation/controllers/consumer/heartbeat"
	"liqo.io/federation/controllers/consumer/offloading"
	"liqo.io/federation/controllers/consumer/request"
	"liqo.io/federation/controllers/consumer/virtualnode"
	"liqo.io/federation/controllers/link/addresses"
	"liqo.io/federation/controllers/link/clusterinfo"
	"liqo.io/federation/controllers/link/foreigncluster"
	"liqo.io/federation/controllers/link/gateway"
	"liqo.io/federation/controllers/link/replication"
	"liqo.io/federation/controllers/link/serviceexport"
	"liqo.io/federation/controllers/link/tunnel"
	"liqo.io/federation/controllers/provider/admission"
	"liqo.io/federation/controllers/provider/endpointslice"
	"liqo.io/federation/controllers/provider/fairness"
	"liqo.io/federation/controllers/provider/identitysigner"
	"liqo.io/federation/controllers/provider/invitation"
	"liqo.io/federation/controllers/provider/liveness"
	"liqo.io/federation/controllers/provider/namespace"
	"liqo.io/federation/controllers/provider/offer"
	"liqo.io/federation/controllers/provider/shadowpod"
	"liqo.io/federation/controllers/storage/consumer"
	"liqo.io/federation/controllers/storage/move"
	"liqo.io/federation/controllers/storage/provider"
)

// Controller is a controller that the process can run.
type Controller struct {
	// Name selects the controller in --controllers.
	Name string
	// OffByDefault excludes the controller from * in --controllers.
	OffByDefault bool
	// Init adds the controller to the manager of the Config.
	Init func(ctx context.Context, config *Config) error
}

// controllers returns all controllers, in the order of their initialization.
func controllers() []Controller {
	return []Controller{
		{Name: foreigncluster.Name, Init: initForeignCluster},
		{Name: admission.Name, Init: initIdentityRequest},
		{Name: invitation.Name, Init: initPeeringToken},
		{Name: identitysigner.Name, OffByDefault: true, Init: initIdentitySigner},
		{Name: fairness.Name, Init: initPeerFairness},
		{Name: replication.Name, Init: initReplication},
		{Name: clusterinfo.Name, Init: initClusterInfo},
		{Name: tunnel.Name, Init: initNetwork},
		{Name: tunnel.InvitationName, Init: initInvitationGateway},
		{Name: gateway.Name, Init: initGatewayService},
		{Name: addresses.PodsName, Init: initPodAddresses},
		{Name: addresses.EndpointsName, Init: initEndpointAddresses},
		{Name: addresses.ReachName, Init: initTunnelReach},
		{Name: addresses.APIServerName, Init: initAPIServerAddress},
		{Name: addresses.ReadersName, Init: initAddressReaders},
		{Name: heartbeat.Name, Init: initHeartbeat},
		{Name: liveness.Name, Init: initConsumerLiveness},
		{Name: offer.Name, Init: initResourceOffer},
		{Name: request.Name, Init: initResourceRequest},
		{Name: virtualnode.Name, Init: initVirtualNode},
		{Name: offloading.Name, Init: initNamespaceOffloading},
		{Name: offloading.MapName, Init: initNamespaceMap},
		{Name: namespace.Name, Init: initRemoteNamespace},
		{Name: shadowpod.Name, Init: initShadowPod},
		{Name: endpointslice.Name, Init: initShadowEndpointSlice},
		{Name: serviceexport.Name, Init: initServiceExport},
		{Name: provider.Name, Init: initShadowVolumeClaim},
		{Name: consumer.ProvisionerName, Init: initStorageProvisioner},
		{Name: consumer.CapacityName, Init: initStorageCapacity},
		{Name: consumer.VirtualVolumesName, Init: initVirtualVolume},
		{Name: consumer.ExpanderName, Init: initStorageExpansion},
		{Name: consumer.ReleaserName, Init: initStorageRelease},
		{Name: move.Name, Init: initVolumeMove},
	}
}

func controllerNames(withOff bool) []string {
	var names []string
	for _, controller := range controllers() {
		if withOff || !controller.OffByDefault {
			names = append(names, controller.Name)
		}
	}
	return names
}

func offByDefault() []string {
	var names []string
	for _, controller := range controllers() {
		if controller.OffByDefault {
			names = append(names, controller.Name)
		}
	}
	return names
}

// selected reports whether the values of --controllers include a controller. A value with the name of the controller,
// with or without a leading -, takes precedence over *. The last such value applies.
func selected(selection []string, controller Controller) bool {
	included, named := false, false
	for _, word := range selection {
		switch word {
		case controller.Name:
			included, named = true, true
		case "-" + controller.Name:
			included, named = false, true
		case "*":
			if !named {
				included = !controller.OffByDefault
			}
		}
	}
	return included
}

func validateSelection(selection []string) []error {
	var errs []error
	known := controllerNames(true)
	for _, word := range selection {
		if name := strings.TrimPrefix(word, "-"); word != "*" && !slices.Contains(known, name) {
			errs = append(errs, fmt.Errorf("--controllers: %q: must be one of %v", name, known))
		}
	}
	return errs
}

// initControllers adds the selected controllers to the manager, in the order of the list. It fails if no controller is
// selected, or if one cannot be initialized.
func initControllers(ctx context.Context, config *Config, selection []string) error {
	for _, controller := range controllers() {
		if !selected(selection, controller) {
			klog.FromContext(ctx).Info("Controller is not selected", "controller", controller.Name)
			continue
		}
		if err := controller.Init(ctx, config); err != nil {
			return fmt.Errorf("preparing controller %s: %w", controller.Name, err)
		}
	}
	if config.manager == nil {
		return fmt.Errorf("--controllers=%s: must select a controller", strings.Join(selection, ","))
	}
	return nil
}

//! What members shall have: templates of roles, keys of cells, and the settings made of both.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use antedate_host::fault::Fault;
use antedate_host::replace::replace;

use super::files::{make_directory, read, write};
use super::{Home, Member, no_random};
use crate::bearer::overlay::Overlay;
use crate::bearer::{Bearers, Given, GroupError, Side, dtls};
use crate::cell::{self, Cell};
use crate::document::Settings;
use crate::enrol::is_name;
use crate::now;
use crate::render::{Device, RenderError, render};

impl Home {
    fn role_directory(&self, role: &str) -> PathBuf {
        self.directory.join("roles").join(role)
    }

    /// The templates of a role. A role without files has none.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn role(&self, role: &str) -> Result<BTreeMap<String, String>, Fault> {
        let mut files = BTreeMap::new();
        if !is_name(role) {
            return Ok(files);
        }
        let Ok(entries) = fs::read_dir(self.role_directory(role)) else { return Ok(files) };
        for entry in entries.flatten() {
            let path = entry.path();
            let text = fs::read_to_string(&path)
                .map_err(|error| Fault::of_io(&path, "read the template", &error, "write text in UTF-8"))?;
            files.insert(entry.file_name().to_string_lossy().into_owned(), text);
        }
        Ok(files)
    }

    /// Writes a template of a role.
    ///
    /// # Errors
    /// When a name is illegal, or the file cannot be written.
    pub fn set_role(&self, role: &str, file: &str, text: &str) -> Result<(), Fault> {
        for name in [role, file] {
            if !is_name(name) {
                let what = format!("\"{name}\" is no name of a role or a file");
                return Err(Fault::of_file(&self.directory, what, "use 1 to 64 letters, digits and - _ ."));
            }
        }
        let directory = self.role_directory(role);
        make_directory(&directory)?;
        replace(&directory.join(file), text.as_bytes()).map(drop)
    }

    fn cell_file(&self, cell: &str) -> PathBuf {
        self.directory.join("cells").join(format!("{cell}.json"))
    }

    /// A cell that has keys.
    ///
    /// # Errors
    /// When its file is damaged.
    pub fn cell_if_made(&self, cell: &str) -> Result<Option<Cell>, Fault> {
        let file = self.cell_file(cell);
        if is_name(cell) && file.exists() { read(&file).map(Some) } else { Ok(None) }
    }

    /// The cells whose keys devices know that are no members any more, and the names of those.
    ///
    /// # Errors
    /// When a file is damaged.
    pub fn left_cells(&self) -> Result<BTreeMap<String, Vec<String>>, Fault> {
        let mut cells = BTreeMap::new();
        let Ok(entries) = fs::read_dir(self.directory.join("cells")) else { return Ok(cells) };
        for entry in entries.flatten() {
            let file = entry.file_name();
            let Some(cell) = file.to_str().and_then(|name| name.strip_suffix(".json")) else { continue };
            let Some(keys) = self.cell_if_made(cell)? else { continue };
            let is_member = |id: &str| {
                self.devices.get(id).is_some_and(|member| member.revoked == 0 && member.cell == cell)
            };
            let name = |id: &str| self.devices.get(id).map_or_else(|| id.to_owned(), |one| one.name.clone());
            let names: Vec<String> = keys.left(is_member).map(name).collect();
            if !names.is_empty() {
                cells.insert(cell.to_owned(), names);
            }
        }
        Ok(cells)
    }

    /// A cell. One that is new gets its first CAK, and the members of now count as those that have the keys.
    ///
    /// # Errors
    /// When its file is damaged or cannot be written.
    pub fn cell(&self, cell: &str) -> Result<Option<Cell>, Fault> {
        if cell.is_empty() {
            return Ok(None);
        }
        if !is_name(cell) {
            let what = format!("\"{cell}\" is no name of a cell");
            return Err(Fault::of_file(&self.directory, what, "use 1 to 64 letters, digits and - _ ."));
        }
        let file = self.cell_file(cell);
        let is_new = !file.exists();
        let mut keys = if is_new { Cell::generate(now()).map_err(no_random)? } else { read::<Cell>(&file)? };
        let members = self.members().filter(|(_, member)| member.cell == cell).map(|(id, _)| id.as_str());
        if keys.follow(members) || is_new {
            self.set_cell(cell, &keys)?;
        }
        Ok(Some(keys))
    }

    /// Writes a cell.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn set_cell(&self, cell: &str, keys: &Cell) -> Result<(), Fault> {
        make_directory(&self.directory.join("cells"))?;
        write(&self.cell_file(cell), keys)
    }

    pub(super) fn group_file(&self, bearer: &str, name: &str) -> Result<PathBuf, Fault> {
        if !is_name(name) {
            let what = format!("\"{name}\" is no name of a group");
            return Err(Fault::of_file(&self.directory, what, "use 1 to 64 letters, digits and - _ ."));
        }
        let directory = self.directory.join(bearer);
        make_directory(&directory)?;
        Ok(directory.join(format!("{name}.json")))
    }

    /// The members of a group, by the value that names it.
    pub(super) fn sides<'a>(&'a self, name: &str, of: impl Fn(&Member) -> &str) -> Vec<Side<'a>> {
        self.members()
            .filter(|(_, member)| of(member) == name)
            .map(|(id, member)| Side { id, member })
            .collect()
    }

    fn is_revoked(&self, id: &str) -> bool {
        self.devices.get(id).is_some_and(|member| member.revoked != 0)
    }

    /// Writes an overlay.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn set_overlay(&self, name: &str, overlay: &Overlay) -> Result<(), Fault> {
        write(&self.group_file("overlays", name)?, overlay)
    }

    /// Writes a DTLS group.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn set_dtls(&self, name: &str, group: &dtls::Group) -> Result<(), Fault> {
        write(&self.group_file("dtls", name)?, group)
    }

    /// An overlay, which follows its members.
    ///
    /// # Errors
    /// When its members make none, or its file is damaged or cannot be written.
    pub fn overlay(&self, name: &str) -> Result<Overlay, Fault> {
        let file = self.group_file("overlays", name)?;
        let fault = |error: GroupError| Fault::of_file(&file, error.to_string(), "");
        let mut overlay = if file.exists() { read(&file)? } else { Overlay::new().map_err(fault)? };
        let is_lost = self.is_revoked(overlay.hub());
        if is_lost {
            overlay.lose_hub(now()).map_err(fault)?;
        }
        if overlay.follow(name, &self.sides(name, |member| &member.overlay), now()).map_err(fault)? || is_lost
        {
            write(&file, &overlay)?;
        }
        Ok(overlay)
    }

    /// A DTLS group, which follows its members.
    ///
    /// # Errors
    /// When its members make none, or its file is damaged or cannot be written.
    pub fn dtls(&self, name: &str) -> Result<dtls::Group, Fault> {
        let file = self.group_file("dtls", name)?;
        let fault = |error: GroupError| Fault::of_file(&file, error.to_string(), "");
        let mut group = if file.exists() { read(&file)? } else { dtls::Group::default() };
        let is_lost = group.listeners().iter().any(|id| self.is_revoked(id));
        if is_lost {
            group.lose_listener(now()).map_err(fault)?;
        }
        if group.follow(name, &self.sides(name, |member| &member.dtls), now()).map_err(fault)? || is_lost {
            write(&file, &group)?;
        }
        Ok(group)
    }

    /// The groups of one member.
    ///
    /// # Errors
    /// As [`Home::cell`], [`Home::overlay`], [`Home::dtls`] and [`Home::mqtt`].
    pub fn join(&self, bearers: &mut Bearers, member: &Member) -> Result<(), Fault> {
        let Member { cell, overlay, dtls, mqtt, .. } = member;
        if !bearers.cells.contains_key(cell)
            && let Some(keys) = self.cell(cell)?
        {
            bearers.cells.insert(cell.clone(), keys);
        }
        if !overlay.is_empty() && !bearers.overlays.contains_key(overlay) {
            bearers.overlays.insert(overlay.clone(), self.overlay(overlay)?);
        }
        if !dtls.is_empty() && !bearers.dtls.contains_key(dtls) {
            bearers.dtls.insert(dtls.clone(), self.dtls(dtls)?);
        }
        if !mqtt.is_empty() && !bearers.mqtt.contains_key(mqtt) {
            bearers.mqtt.insert(mqtt.clone(), self.mqtt(mqtt)?);
        }
        Ok(())
    }

    /// The files that a member shall have. `bearers` keeps the groups for the next member.
    ///
    /// # Errors
    /// When its templates cannot be filled, or its groups have no keys for it.
    pub fn wanted(&self, bearers: &mut Bearers, id: &str) -> Result<Settings, Fault> {
        let Some(member) = self.devices.get(id) else { return Ok(Settings::default()) };
        let templates = self.role(&member.role)?;
        self.join(bearers, member)?;
        let Member { name, role, cell, values, overlay, dtls, mqtt, .. } = member;
        let mut given = Given::default();
        if let Some(keys) = bearers.cells.get(cell) {
            given.files.insert(cell::FILE.to_owned(), keys.text());
        }
        if let Some(keys) = bearers.overlays.get(overlay) {
            let sides = self.sides(overlay, |member| &member.overlay);
            let more = keys.given(id, overlay, &sides);
            let more = more.map_err(|error| Fault::of_file(&self.directory, error.to_string(), ""))?;
            given.files.extend(more.files);
            given.values.extend(more.values);
        }
        if let Some(keys) = bearers.dtls.get(dtls) {
            given.files.extend(keys.given(id).files);
        }
        if let Some(keys) = bearers.mqtt.get(mqtt) {
            given.files.extend(keys.given(id).files);
        }
        let device = Device { name, id, role, cell, values };
        render(device, &templates, given).map_err(|error: RenderError| {
            let place = self.role_directory(&member.role);
            Fault::of_file(&place, error.to_string(), "")
        })
    }

    /// The files that a member was told last, with the keys that its cell has now. For when others cannot
    /// be made: a fault elsewhere keeps nobody in a lost device's cell.
    ///
    /// # Errors
    /// When the cell's file is damaged.
    pub fn with_cell(&self, id: &str) -> Result<Option<Settings>, Fault> {
        let Some(member) = self.devices.get(id) else { return Ok(None) };
        let (Some(mut settings), Some(keys)) = (self.published(id), self.cell_if_made(&member.cell)?) else {
            return Ok(None);
        };
        Ok(settings.files.contains_key(cell::FILE).then(|| {
            settings.files.insert(cell::FILE.to_owned(), keys.text());
            settings
        }))
    }

    /// The settings that a member was told last.
    #[must_use]
    pub fn published(&self, id: &str) -> Option<Settings> {
        read(&self.directory.join("published").join(format!("{id}.json"))).ok()
    }

    /// Remembers the settings that a member was told.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn set_published(&self, id: &str, settings: &Settings) -> Result<(), Fault> {
        let directory = self.directory.join("published");
        make_directory(&directory)?;
        write(&directory.join(format!("{id}.json")), settings)
    }

    /// Forgets them: what it was told is not in force.
    ///
    /// # Errors
    /// When they cannot be removed.
    pub fn forget_published(&self, id: &str) -> Result<(), Fault> {
        let file = self.directory.join("published").join(format!("{id}.json"));
        match fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Fault::of_io(&file, "remove the file", &error, "run as its owner"))
            }
            _ => Ok(()),
        }
    }
}
